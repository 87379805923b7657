//! Subcommands, each a twin of something that the window does.
