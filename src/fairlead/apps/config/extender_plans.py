"""`extenders` of a configuration, as kube-scheduler has them: whom to ask, where and how long."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from fairlead.apps.config.extender_format import Extender, ExtenderTLS
from fairlead.apps.config.extender_terms import TIMEOUT_S, ExtenderFiles, ExtenderPlan
from fairlead.apps.config.findings import Finding
from fairlead.base.durations import seconds
from fairlead.model.errors import ConfigError
from fairlead.model.http_extenders import ExtenderTerms

#: More would delay each pod for too long.
_MOST_EXTENDERS = 16
_LONGEST_S = 60.0
_BINDS = (
    "Fairlead writes Bindings itself, and no extender can; remove bindVerb, or use kube-scheduler "
    "for the pods that need it"
)
_PREEMPTS = (
    "Fairlead chooses the pods to evict without extenders; remove preemptVerb, or use "
    "kube-scheduler for the pods that need it"
)
_DATA = "write the path of a file: Fairlead reads certFile, keyFile and caFile"


def extender_plans(found: Sequence[Extender]) -> tuple[ExtenderPlan, ...]:
    """In the order in which they are asked: ignorable ones last."""
    plans = [
        ExtenderPlan(
            ExtenderTerms(
                each.url_prefix,
                frozenset(resource.name for resource in each.managed_resources),
                each.ignorable,
            ),
            each.filter_verb,
            each.prioritize_verb,
            each.weight,
            timeout_s(each.http_timeout) or TIMEOUT_S,
            each.node_cache_capable,
            each.enable_https,
            _files(each.tls_config),
        )
        for each in found
        if each.filter_verb or each.prioritize_verb
    ]
    return tuple(sorted(plans, key=lambda plan: plan.terms.ignorable))


def checked_extenders(found: Sequence[Extender]) -> tuple[ExtenderPlan, ...]:
    """Of a configuration of ours. Raises ConfigError."""
    for problem in extender_problems(found):
        raise ConfigError(str(problem))
    return extender_plans(found)


def _files(tls: ExtenderTLS | None) -> ExtenderFiles | None:
    if tls is None:
        return None
    return ExtenderFiles(tls.insecure, tls.ca_file, tls.cert_file, tls.key_file, tls.server_name)


def timeout_s(given: str | int) -> float | None:
    """A number is in nanoseconds, as in Go."""
    return given / 1e9 if isinstance(given, int) else seconds(given or "0")


def extender_problems(found: Sequence[Extender]) -> Iterator[Finding]:
    """What cannot be honoured."""
    if len(found) > _MOST_EXTENDERS:
        yield Finding("extenders", f"there are {len(found)}; write at most {_MOST_EXTENDERS}")
    urls = [each.url_prefix for each in found]
    for place, each in enumerate(found):
        key = f"extenders[{place}]"
        if each.bind_verb:
            yield Finding(f"{key}.bindVerb", _BINDS)
        if each.preempt_verb:
            yield Finding(f"{key}.preemptVerb", _PREEMPTS)
        if wrong := _wrong_url(each.url_prefix):
            yield Finding(f"{key}.urlPrefix", wrong)
        elif each.url_prefix in urls[:place]:
            yield Finding(f"{key}.urlPrefix", f"{each.url_prefix} is there twice; remove one")
        limit_s = timeout_s(each.http_timeout)
        if limit_s is None or not 0 <= limit_s <= _LONGEST_S:
            text = f"{each.http_timeout!r} is not usable; use a value such as 5s, at most 60s"
            yield Finding(f"{key}.httpTimeout", text)
        tls = each.tls_config
        if tls and (tls.cert_data or tls.key_data or tls.ca_data):
            yield Finding(f"{key}.tlsConfig", _DATA)


def _wrong_url(text: str) -> str:
    """What is wrong with it; empty if nothing is. The URL is shown to users in messages."""
    try:
        found = urlsplit(text)
        named = found.scheme in ("http", "https") and found.hostname and found.port != 0
    except ValueError:
        named = False
    if not named:
        return f"{text!r} is not a valid URL; use http://… or https://…"
    if found.username is not None or found.query or found.fragment:
        return "it has a user, a query or a fragment, which users would see; remove it"
    return ""
