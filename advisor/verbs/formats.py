"""`phasewise formats`: what is read; `phasewise formats check`: is a format file right?"""

from __future__ import annotations

import sys

import typer

from advisor.options import FormatToCheck  # noqa: TC001 - typer reads it

_WRONG = 1

app = typer.Typer(help="List the log formats that are read.", invoke_without_command=True)


@app.callback()
def formats(context: typer.Context) -> None:
    """List the log formats that are read; `check` tests one of your own."""
    if context.invoked_subcommand is None:
        from advisor.explain import formats_list

        sys.stdout.write(formats_list())


@app.command()
def check(file: FormatToCheck) -> None:
    """Check a format file and run its samples; exit status 1 if something in it is wrong."""
    from advisor.command import warn
    from advisor.redact import clean
    from advisor.user_formats import text_of
    from parsers.formats.user import FormatFileError, parse
    from parsers.formats.user.messages import message
    from parsers.formats.user.trial import problems_in_time
    from rules.words import plural

    text = text_of(file)
    try:
        spec = parse(text)
        found = problems_in_time(spec)
    except FormatFileError as error:
        found = error.problems
    for problem in found:
        for line in message(text, str(file), problem).split("\n"):
            print(clean(line), file=sys.stderr)
    if found:
        warn(f"{file}: {plural(len(found), 'problem')}.")
        raise typer.Exit(_WRONG)
    lines, samples = plural(len(spec.line), "line"), plural(len(spec.sample), "sample")
    sys.stdout.write(f"{clean(str(file))}: {spec.engine}, {lines}, {samples}: as expected\n")
