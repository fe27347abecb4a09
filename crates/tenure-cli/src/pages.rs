//! Pages made of the flags: completions and the manual.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::Result;
use crate::exit_code;

/// Prints completions for a shell.
pub(crate) fn completions(mut command: Command, shell: Shell) -> Result<ExitCode> {
    let mut page = Vec::new();
    clap_complete::generate(shell, &mut command, "tenure", &mut page);
    io::stdout().write_all(&page)?;
    Ok(exit_code::DONE)
}

/// Prints the manual page, with a chapter for each verb.
pub(crate) fn manual(mut command: Command) -> Result<ExitCode> {
    command.build();
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    for verb in command.get_subcommands() {
        let title = verb.get_name().to_uppercase();
        writeln!(page, ".SH \"TENURE {title}\"")?;
        page.write_all(chapter(verb)?.as_bytes())?;
    }
    io::stdout().write_all(&page)?;
    Ok(exit_code::DONE)
}

/// The sections of a verb, as parts of a chapter.
fn chapter(verb: &Command) -> Result<String> {
    let mut text = Vec::new();
    let verb = Man::new(verb.clone());
    verb.render_synopsis_section(&mut text)?;
    verb.render_description_section(&mut text)?;
    verb.render_options_section(&mut text)?;
    verb.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.replace("\n.SH ", "\n.SS ").replacen(".SH ", ".SS ", 1))
}
