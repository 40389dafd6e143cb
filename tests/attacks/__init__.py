"""Programs that attack agent.py: each says of each attack whether it got through. See tests/test_attacks.py."""
