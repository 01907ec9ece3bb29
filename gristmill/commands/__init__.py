"""The commands of ``gristmill``, grouped by what a person is doing.

Belongs here: one registering function a command. Each imports what it needs only when it is called.
"""

from gristmill.commands import (
    dataset,
    decontaminate,
    explore,
    follow,
    holdouts,
    models,
    operate,
    plan,
    project,
    quality,
    safety,
    upkeep,
    watch,
)

COMMANDS = [*project.COMMANDS, *explore.COMMANDS, *dataset.COMMANDS, *follow.COMMANDS, *quality.COMMANDS,
            *models.COMMANDS, *safety.COMMANDS, *holdouts.COMMANDS, *decontaminate.COMMANDS, *plan.COMMANDS,
            *operate.COMMANDS, *upkeep.COMMANDS, *watch.COMMANDS]
