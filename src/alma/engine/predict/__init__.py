"""How likely a strategy is to succeed at the task at hand, from the outcomes of an agent.

`read_task` finds the outcomes that bear on a task, `survey_strategy` those that bear on one strategy for it, and
`forecast` weighs them. The first is the same for every strategy that is considered for the task.
"""

from .forecast import Beta, Forecast, Trial, find_stale_age, forecast, weigh_likeness
from .trials import Survey, TaskContext, forecast_lessons, read_task, survey_strategy

__all__ = [
    "Beta",
    "Forecast",
    "Survey",
    "TaskContext",
    "Trial",
    "find_stale_age",
    "forecast",
    "forecast_lessons",
    "read_task",
    "survey_strategy",
    "weigh_likeness",
]
