"""What every test shares."""

import hypothesis

# Machines are shared and noisy: how long an example takes says nothing about the code.
hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")
