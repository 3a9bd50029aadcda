//! The program as a user runs it. Runs of the lab are in the binaries `runs` and `alone`.

mod architecture;
mod command_line;
mod compare;
mod descriptors;
mod hub_crash;
mod processes;
mod relay_crash;
mod serving;
mod stop_signals;
mod switch;
