//! Arguments and logging; hands over to the window or the command line.

fn main() {}
