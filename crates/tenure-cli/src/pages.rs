//! Pages generated from the flags: completions and the manual.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::Result;
use crate::{exit_code, output};

/// Prints completions for a shell.
pub(crate) fn completions(mut command: Command, shell: Shell) -> Result<ExitCode> {
    let mut page = Vec::new();
    clap_complete::generate(shell, &mut command, "tenure", &mut page);
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(exit_code::DONE)
}

/// Prints the manual page, with a chapter for each verb.
pub(crate) fn manual(mut command: Command) -> Result<ExitCode> {
    command.build();
    let mut front = Vec::new();
    Man::new(command.clone()).render(&mut front)?;
    // Examples and tables keep their line breaks.
    let mut page = String::from_utf8_lossy(&front)
        .replace(
            ".SH EXTRA\n",
            ".SH \"EXAMPLES, STORES AND EXIT CODES\"\n.nf\n",
        )
        .replace(".SH VERSION\n", ".fi\n.SH VERSION\n");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_name();
        // Verbs have no pages of their own; they are chapters of this page.
        page = page.replace(&format!("tenure\\-{name}(1)"), &format!("tenure {name}"));
        page += &format!(".SH \"TENURE {}\"\n", name.to_uppercase());
        page += &chapter(verb)?;
    }
    output::print(&page)?;
    Ok(exit_code::DONE)
}

/// Returns the sections of a verb as parts of a chapter.
fn chapter(verb: &Command) -> Result<String> {
    let mut text = Vec::new();
    let verb = Man::new(verb.clone());
    verb.render_synopsis_section(&mut text)?;
    verb.render_description_section(&mut text)?;
    verb.render_options_section(&mut text)?;
    verb.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let text = text
        .replace("\n.SH ", "\n.SS ")
        .replacen(".SH ", ".SS ", 1)
        .replace(".SS EXTRA\n", ".SS EXAMPLES\n.nf\n");
    Ok(text + ".fi\n")
}
