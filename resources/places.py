"""Where the store and its neighbours are, as a Dagster resource.

Belongs here: roots, and opening the store at run time. Does not belong here: credentials, which object-store clients
take from the environment, and parameters that change bytes.
"""

import dagster as dg

from gristmill.params import SiteConfig
from gristmill.store import Store


class Places(dg.ConfigurableResource):
    """Roots of the store, the landing area, the hold-outs and the model cache: folders or ``s3://``."""

    store: str
    landing: str
    holdout: str
    models: str
    holdout_env: str = ""

    def open_store(self) -> Store:
        """The store; nothing connects before this is called."""
        return Store(self.store)

    def site(self) -> SiteConfig:
        """The same places, as the library takes them."""
        return SiteConfig(store=self.store, landing=self.landing, holdout=self.holdout, models=self.models,
                          holdout_env=self.holdout_env)
