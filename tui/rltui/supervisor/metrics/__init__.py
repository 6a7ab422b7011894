"""The run's metrics as the supervisor takes and judges them."""
