"""Looking forward: how likely a strategy is to succeed at the task at hand, from the outcomes of an agent.

`ground` finds the outcomes that bear on a task, `survey` those that bear on one strategy for it, and `forecast` weighs
them. The first is the same for every strategy that is considered for the task.
"""

from .beta import Beta
from .gather import Ground, Survey, ground, survey
from .trial import Trial
from .weigh import Forecast, forecast

__all__ = ["Beta", "Forecast", "Ground", "Survey", "Trial", "forecast", "ground", "survey"]
