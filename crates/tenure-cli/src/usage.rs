//! Parses a command line, and explains in one sentence what is wrong with it.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::error::{Failure, Result};
use crate::{duration, exit_code, output};

/// Parses the command line of this process.
///
/// # Errors
///
/// How the process ends instead: after printing the requested help, or because of wrong usage.
pub fn parse<C: Parser>() -> Result<C, Result<ExitCode>> {
    C::try_parse().map_err(|error| explain::<C>(&error))
}

/// Prints the requested help, or explains what is wrong with the command line.
fn explain<C: CommandFactory>(error: &clap::Error) -> Result<ExitCode> {
    if !error.use_stderr() {
        error.print().map_err(output::unwritten)?;
        return Ok(exit_code::DONE);
    }
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        anstream::eprint!("{}", C::command().render_help().ansi());
        return Err(Failure::silent(exit_code::USAGE));
    }
    let text = hint(error).unwrap_or_else(|| {
        let text = error.to_string();
        in_one_line(text.strip_prefix("error: ").unwrap_or(&text))
    });
    Err(Failure::usage(tenure::url::redact_all(&text)))
}

/// Says what to write instead of an argument that was not expected.
fn hint(error: &clap::Error) -> Option<String> {
    let ContextValue::String(argument) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let takes_a_command = error.to_string().contains("-- <COMMAND>");
    match argument.strip_prefix('-') {
        None if takes_a_command => Some(format!(
            "put -- before '{argument}': tenure run NAME -- {argument} …"
        )),
        Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => {
            // Of `-5s` the error has only `-5`.
            let arguments: Vec<_> = std::env::args_os().collect();
            let mut arguments = arguments.iter().filter_map(|one| one.to_str());
            let whole = arguments.find(|whole| whole.starts_with(argument.as_str()))?;
            let why = duration::parse(whole).err()?;
            Some(format!("invalid duration '{whole}': {why}"))
        }
        _ => None,
    }
}

/// Joins the error, the hints and the usage into one sentence.
fn in_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let mut sentence = String::new();
    for line in told {
        let (join, line) = match line.split_once(": ") {
            Some(("Usage", usage)) => ("; usage: ", usage),
            Some(("tip", tip)) => ("; ", tip),
            _ if sentence.is_empty() => ("", line),
            _ => (" ", line),
        };
        sentence.push_str(join);
        sentence.push_str(line);
    }
    sentence
}
