//! The window's own small widgets, in the sizes of the design and each with a name for screen readers.

mod fields;
mod rows;

pub use fields::{edit, slider, step_keys};
pub use rows::{
    Look, Span, button, caption, check, chip, entry, form_row, heading, hint, note, rich,
    segmented, separator, text_button, text_in,
};
