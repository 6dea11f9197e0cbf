"""Simulated GPUs: what a description gives, and which descriptions are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.base.errors import UsageError
from gkm.gpus.detect import SIMULATED, detect
from gkm.gpus.errors import UnknownProductError
from gkm.gpus.products import PRODUCTS, amd_product, find_product
from gkm.gpus.simulated import MOST_GPUS, parse_simulated


def test_a_mixed_host() -> None:
    gpus = parse_simulated("8xH100,2xMI300X")
    assert [gpu.index for gpu in gpus] == list(range(10))
    assert [gpu.product for gpu in gpus] == ["NVIDIA H100 80GB HBM3"] * 8 + ["AMD Instinct MI300X"] * 2
    assert [(gpu.backend, gpu.arch, gpu.warp_size) for gpu in gpus[7:9]] == [
        ("cuda", "sm_90", 32),
        ("hip", "gfx942", 64),
    ]
    assert gpus[0].compute_capability == "9.0"
    assert gpus[9].compute_capability is None
    assert all(gpu.simulated and gpu.memory_bytes and gpu.driver_version is None for gpu in gpus)
    assert len({gpu.uuid for gpu in gpus}) == 10
    assert gpus == parse_simulated(" 8 x h100 , 2X mi-300x ")


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p.short)
def test_every_product_is_found_by_both_names_and_fits_its_vendors_forms(product: object) -> None:
    assert product in PRODUCTS
    (gpu,) = parse_simulated(product.short)  # type: ignore[attr-defined]
    assert gpu.product == product.name  # type: ignore[attr-defined]
    assert parse_simulated(gpu.product) == (gpu,)
    if gpu.vendor == "nvidia":
        assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", gpu.uuid)
        assert gpu.arch == "sm_" + (gpu.compute_capability or "").replace(".", "")
        assert gpu.warp_size == 32
    else:
        assert re.fullmatch(r"[0-9a-f]{16}", gpu.uuid)
        assert re.fullmatch(r"gfx(9[0-9a-f]{2}|1[0-2]\d{2})", gpu.arch)
        assert gpu.warp_size == (64 if gpu.arch.startswith("gfx9") else 32)


def test_no_two_products_share_a_name_or_a_pci_id() -> None:
    assert len({p.short for p in PRODUCTS}) == len({p.name for p in PRODUCTS}) == len(PRODUCTS)
    assert all(find_product(p.short) is p and find_product(p.name) is p for p in PRODUCTS)
    ids = [pci_id for p in PRODUCTS for pci_id in p.pci_ids]
    assert len(ids) == len(set(ids))


def test_an_amd_product_is_told_by_device_and_where_needed_by_revision() -> None:
    assert getattr(amd_product(0x74A1, 0x00), "short", None) == "MI300X"
    assert getattr(amd_product(0x744C, 0xC8), "short", None) == "RX7900XTX"
    assert getattr(amd_product(0x744C, 0xCC), "short", None) == "RX7900XT"
    assert amd_product(0x744C, 0xFF) is None
    assert amd_product(0x0000, None) is None


def test_a_host_without_gpus_can_be_simulated_too() -> None:
    assert parse_simulated("none") == ()
    assert detect({SIMULATED: " None "}) == ()


@pytest.mark.parametrize("text", ["", ",", "8x", "0xH100", "H100,", "H100,,T4", "999999xT4"])
def test_malformed_descriptions_say_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match="8xH100,2xMI300X") as caught:
        parse_simulated(text)
    assert caught.value.reason == "InvalidUsage"


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known() -> None:
    with pytest.raises(UnknownProductError, match=r"'H10O' \(did you mean H100\?\).*known are V100.*MI300X"):
        parse_simulated("8xH10O")
    with pytest.raises(UnknownProductError, match=r"no GPU product '-3xT4': known are"):
        parse_simulated("-3xT4")


def test_no_more_gpus_than_any_host_has() -> None:
    assert len(parse_simulated(f"{MOST_GPUS}xT4")) == MOST_GPUS
    for text in (f"{MOST_GPUS + 1}xT4", f"{MOST_GPUS}xT4,A10"):
        with pytest.raises(UsageError, match="ask for fewer"):
            parse_simulated(text)


@given(st.text(alphabet="0123456789xXH1T4,- \n٣²"))
def test_any_other_text_is_refused_as_a_wrong_request_and_nothing_else(text: str) -> None:
    try:
        gpus = parse_simulated(text)
    except UsageError:
        return
    assert 0 < len(gpus) <= MOST_GPUS


def test_the_environment_variable_takes_the_hosts_place() -> None:
    assert detect({SIMULATED: "2xT4"}) == parse_simulated("2xT4")
    with pytest.raises(UnknownProductError):
        detect({SIMULATED: "8xZ9"})
