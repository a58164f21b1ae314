//! Load generators that servers bring with them.
