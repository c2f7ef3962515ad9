"""What expressions may speak of: variables and the fields of their types."""

from collections.abc import Mapping
from dataclasses import field

from fairlead.cel.types import ANY, BOOL, DEVICE, QUANTITY, STRING, StaticType, map_of
from fairlead.model.lazy_dataclass import dataclass

Fields = Mapping[str, StaticType]


@dataclass(frozen=True, slots=True)
class Environment:
    variables: tuple[tuple[str, StaticType], ...]
    #: By the name of the type.
    fields: Mapping[str, Fields] = field(default_factory=dict)


#: Selectors of devices.
DEVICES = Environment(
    (("device", DEVICE),),
    {
        DEVICE.name: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
        }
    },
)
