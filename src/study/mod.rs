//! The use of it all: open, prepare, guard, run, detect, result file.
