"""Which tests `make test` leaves to `make test-more`, and with which it begins. Paths below `tests/`."""

MORE = (
    "api/test_fuzz.py",
    "api/test_half_open.py",
    "api/test_one_row.py",
    "api/test_subscriptions_outage.py",
    "changes/test_changes.py",
    "chaos/",
    "cli/test_instance.py",
    "contract/test_typescript.py",
    "e2e/test_binding.py",
    "e2e/test_encryption.py",
    "e2e/test_exclusion.py",
    "e2e/test_flood.py",
    "e2e/test_hand_over.py",
    "e2e/test_hostile.py",
    "e2e/test_hostile_device.py",
    "e2e/test_limit.py",
    "e2e/test_limits.py",
    "e2e/test_newcomer.py",
    "e2e/test_recovery.py",
    "e2e/test_secrets.py",
    "e2e/test_stall.py",
    "e2e/test_stuck.py",
    "e2e/test_subscriptions.py",
    "e2e/test_taken_back.py",
    "e2e/test_turns.py",
    "e2e/test_viewers.py",
    "workflows/test_encryption.py",
    "workflows/test_forged_everywhere.py",
    "workflows/test_full_run.py",
    "workflows/test_reset.py",
)
"""The dearest plays: files and folders of tests."""

LONGEST = (
    "api/test_subscriptions.py",
    "cli/test_demo.py",
    "cli/test_up.py",
    "e2e/",
    "flows/test_on_emulators.py",
    "protocol/test_protocol.py",
    "protocol/test_rules.py",
    "replay/",
    "testing/test_rows.py",
    "workflows/test_dispatcher.py",
)
"""Files that take longest. Each runs in one process, and one that began last would keep the others waiting."""
