"""See :mod:`deploy.controller.main`."""

import sys

from deploy.controller.main import main

sys.exit(main())
