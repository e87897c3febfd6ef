"""Nodes that share a name on the command line."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.spec("S4.1")
def test_nodes_that_share_a_name_are_told_apart_by_name_and_label(cli: Any) -> None:
    for label in ("planet", "metal"):
        assert cli("graph", "node", "Mercury", "--label", label).code == 0
    refused = cli("graph", "edge", "Mercury", "orbits", "Sun")
    assert refused.code == 1
    assert "Mercury#metal or Mercury#planet" in refused.err
    assert cli("graph", "edge", "Mercury#planet", "orbits", "Sun").code == 0
    assert "orbits" in cli("graph", "path", "Mercury#planet", "Sun").out
    assert "no path" in cli("graph", "path", "Mercury#metal", "Sun").err
    assert "Sun" in cli("graph", "neighbors", "Mercury#planet").out
    assert cli("graph", "remove", "Mercury#planet", "orbits", "Sun").code == 0
    assert cli("graph", "remove", "Mercury#metal").code == 0
    assert cli("graph", "neighbors", "Mercury").code == 0


def test_an_unknown_node_is_reported_with_the_command_that_finds_names(cli: Any) -> None:
    cli("graph", "node", "Mercury")
    refused = cli("graph", "show", "Merkury")
    assert refused.code == 1
    assert "no node 'Merkury'" in refused.err
    assert "fourfold graph nodes --like TEXT finds names" in " ".join(refused.err.split())
