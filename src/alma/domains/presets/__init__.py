"""The preset schemas under their first module name; `alma.domains` reads them from `alma/domain_presets`."""

from .. import PRESETS as PRESETS
