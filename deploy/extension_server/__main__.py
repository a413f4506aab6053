"""The extension server as a command of its own."""

import sys

from deploy.extension_server.cli import main

sys.exit(main())
