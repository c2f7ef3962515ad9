"""Every error of Fairlead's own, as one tree.

FairleadError
├── QuantityError        a text that is no Kubernetes quantity
├── PluginFault          a plugin answered in a way that cannot be used
│   └── FilterFailed     a filter could not check a node; the text is kube-scheduler's
├── ConfigError          the configuration cannot be used; the message says what to change
│   └── UnknownPlugin    a profile names a plugin that is not registered
└── …                    `kube.errors` adds what can go wrong between us and the API server

"No node fits" is not here: it is a verdict (`placement.verdicts.Refused`), not an error.
"""


class FairleadError(Exception):
    """Something broke a promise. Its text is one sentence that says what to do."""


class QuantityError(FairleadError):
    """A text that is no Kubernetes quantity."""


class PluginFault(FairleadError):
    """A plugin answered in a way that cannot be used."""


class FilterFailed(PluginFault):
    """A filter could not check a node, so the pod is placed on none."""


class ConfigError(FairleadError):
    """The configuration cannot be used as it is."""


class UnknownPlugin(ConfigError):
    """A profile names a plugin that is not registered."""
