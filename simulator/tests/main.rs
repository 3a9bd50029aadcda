//! Whole histories, their replay, and defects that they must find.

mod defects;
mod histories;
mod replay;
