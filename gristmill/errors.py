"""The errors a person may see. Few, typed, and each message says what to do.

Belongs here: exception classes that cross a module's border. Does not belong here: control flow inside a module.
"""


class GristmillError(Exception):
    """Base of all errors that are the user's to mend; the command line prints its message without a traceback."""


class ParameterError(GristmillError):
    """A parameter file is missing, unreadable, or holds a value that cannot be used."""


class LandingError(GristmillError):
    """A crawl's landing area is missing, empty, or names files that are not there."""


class StoreError(GristmillError):
    """The store cannot be read or written: wrong version, full disk, refused credentials."""


class AccessRefusedError(StoreError):
    """An object store refused the credentials that this process has."""


class MissingPartitionError(StoreError):
    """A partition that a stage reads has not been committed."""


class StalePartitionError(MissingPartitionError):
    """The partition exists, but made by other parameters than today's."""


class DamagedPartitionError(StoreError):
    """A committed partition's bytes are not what its manifest says."""


class ArchivedPartitionError(StoreError):
    """A committed partition's files lie in an archive; the message says how to restore them."""


class PartitionBusyError(StoreError):
    """Another live process is writing this partition."""


class SchemaError(GristmillError):
    """A table does not have the columns its schema in ``gristmill/schemas.py`` promises."""


class ModelError(GristmillError):
    """A model file is missing or its hash is not the pinned one."""


class HoldoutError(GristmillError):
    """The hold-outs are missing, changed, or would be overwritten."""


class BandIndexError(GristmillError):
    """A generation of the band index is missing or damaged; going on would append the whole web again."""


class RecipeError(GristmillError):
    """A mixture recipe asks for what cannot be; the message carries the numbers."""


class ManifestError(GristmillError):
    """A dataset manifest cannot be built, read, or verified."""


class ShardError(GristmillError):
    """A token shard is damaged, missing, or no longer the one its manifest names; or too much of a run was skipped."""


class CheckpointError(GristmillError):
    """A checkpoint's pins (manifest, recipe, tokenizer, sampler) are not those of this loader."""


class WorkerError(GristmillError):
    """A task failed in a worker process; the message names the task and carries the worker's traceback."""
