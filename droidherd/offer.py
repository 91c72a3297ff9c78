"""What can be submitted, by the settings of this process."""

from droidherd.flows.catalogue import Catalogue
from droidherd.settings import Settings
from droidherd.web.allow import AllowList


def catalogue_of(settings: Settings) -> Catalogue:
    """The flows of its paths, under its policies, asking whom it allows."""
    allow = AllowList.of(settings.web.allow)
    return Catalogue(settings.flows.paths, settings.policies, may_ask=allow.checked)
