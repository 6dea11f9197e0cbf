"""`gkm store`: the local store, looked at, checked and tidied."""

import typer

from gkm.cli.options import Output, OutputOption, StoreOption, open_store
from gkm.cli.output import emit, size, table
from gkm.cli.status import ANSWER_IS_NO

app = typer.Typer(help="The local store of sealed trees.", no_args_is_help=True, rich_markup_mode=None)


@app.command("ls")
def ls(*, store: StoreOption = None, output: OutputOption = Output.TEXT) -> None:
    """List the sealed trees of the store."""
    from gkm.local.keep import list_trees

    listing = list_trees(open_store(store))
    rows = [
        (
            tree.digest[:19],
            ",".join(tree.formats),
            str(tree.entries),
            size(tree.bytes),
            str(tree.mounts),
            tree.image or "-",
        )
        for tree in listing.trees
    ]
    header = ("DIGEST", "FORMATS", "ENTRIES", "SIZE", "MOUNTS", "IMAGE")
    emit(listing, table(header, rows) if rows else [f"{listing.store}: no trees"], output)


@app.command("verify")
def verify(*, store: StoreOption = None, output: OutputOption = Output.TEXT) -> None:
    """Hash every file of the store again; exit status 1 if a tree is not what was staged."""
    from gkm.local.keep import verify_trees

    report = verify_trees(open_store(store))
    lines = []
    for tree in report.trees:
        lines.append(f"{tree.digest[:19]}  {'intact' if tree.intact else 'DAMAGED'}  {tree.files} files")
        lines.extend(f"    {damage.kind} {damage.path}" for damage in tree.damaged)
    emit(report, lines or ["no trees"], output)
    if any(not tree.intact for tree in report.trees):
        raise typer.Exit(ANSWER_IS_NO)


@app.command("gc")
def gc(*, store: StoreOption = None, output: OutputOption = Output.TEXT) -> None:
    """Delete the trees that nothing has mounted, and what interrupted work left behind."""
    from gkm.local.keep import collect_garbage

    report = collect_garbage(open_store(store))
    freed = size(sum(tree.bytes for tree in report.removed))
    emit(
        report,
        [
            *(f"removed {tree.digest}" for tree in report.removed),
            f"{len(report.removed)} trees, {freed} freed",
        ],
        output,
    )
