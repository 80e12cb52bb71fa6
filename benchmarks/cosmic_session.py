"""Build a cosmic-ray session of exactly the mutations that make given texts. Run by cosmic-ray's own interpreter.

    PYTHON cosmic_session.py WANTED SESSION     in the folder whose modules are mutated

WANTED: JSON, [[name, module, its text with the fault in it], ...]. SESSION: a session of `cosmic-ray init` over these modules;
it keeps one mutation for each text that some operator makes (equal syntax trees). Prints {name: operator, or "" for none}.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db


def changed_lines(old: str, new: str) -> range:
    """Return the lines of `old`, from 1, between what both texts begin with and what both end with."""
    before, after = old.splitlines(), new.splitlines()
    most = min(len(before), len(after))
    first = next((index for index in range(most) if before[index] != after[index]), most)
    last = next((index for index in range(most - first) if before[-1 - index] != after[-1 - index]), most - first)
    return range(first + 1, len(before) - last + 1)


def makes(mutation: Any, module: str, tree: str) -> bool:
    """Whether a mutation turns the text of a module into one of this syntax tree."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    text = mutate_code(module, operator, mutation.occurrence)
    try:
        return text is not None and ast.dump(ast.parse(text)) == tree
    except SyntaxError:
        return False


def main() -> None:
    """Keep of the session what is wanted."""
    wanted = json.loads(Path(sys.argv[1]).read_text())
    with use_db(sys.argv[2], WorkDB.Mode.open) as session:
        items, kept, found = list(session.work_items), [], {}
        for name, path, text in wanted:
            module = Path(path).read_text()
            lines, tree = changed_lines(module, text), ast.dump(ast.parse(text))
            near = [one for one in items if str(one.mutations[0].module_path) == path and one.mutations[0].start_pos[0] in lines]
            making = next((one for one in near if makes(one.mutations[0], module, tree)), None)
            found[name] = making.mutations[0].operator_name if making else ""
            kept += [making] if making else []
        session.clear()
        session.add_work_items(kept)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
