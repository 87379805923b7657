//! Charts as data, and plan and result as HTML, SVG, PNG.
