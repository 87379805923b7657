//! The program without a window: document, derived, command, state.
