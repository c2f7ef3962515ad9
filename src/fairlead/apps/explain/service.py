"""The service class of a pending pod: its goal, and how much time is left."""

from typing import Any

from fairlead.engine.engine import Engine
from fairlead.model.pods import Pod
from fairlead.model.start_times import utc, words

Answer = dict[str, Any]


def in_class(told: Answer, engine: Engine, pod: Pod, wall_s: float) -> Answer:
    """The answer about a pending pod with its class. `wall_s`: since 1970."""
    goals, entry = engine.service_goals, engine.queue.get(pod.uid)
    class_ = goals.class_of(pod) if goals.classes else None
    wait = goals.wait_of(entry.unit) if entry else None
    if class_ is None or wait is None:
        return told
    since_s = goals.since_s(wait)
    slack_s = since_s + class_.wait_goal_s - wall_s
    found = engine.service_record.of(class_, wall_s)
    data = {
        "name": class_.name,
        "waitGoalSeconds": class_.wait_goal_s,
        "since": utc(since_s),
        "startBy": utc(since_s + class_.wait_goal_s),
        "slackSeconds": round(slack_s, 1),
        "target": class_.target,
        "attainment": found.share,
    }
    return told | {"serviceClass": data | {"message": _sentence(data)}}


def _sentence(data: Answer) -> str:
    slack_s, goal = data["slackSeconds"], words(data["waitGoalSeconds"])
    left = f"{words(slack_s)} left" if slack_s >= 0 else f"missed {words(-slack_s)} ago"
    past = "no unit was counted yet"
    if data["attainment"] is not None:
        past = f"{100 * data['attainment']:.1f} % of its units were in time"
    return (
        f"service class {data['name']}: to start within {goal}, by {data['startBy']} ({left}); "
        f"{past}, the target is {100 * data['target']:g} %"
    )
