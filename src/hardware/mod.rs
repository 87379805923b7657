//! The card catalogue, read from `assets/cards.toml` and a user file. Plans only: touches no device.
