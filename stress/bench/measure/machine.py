"""Describes the machine of a measurement."""

import os
import pathlib
import platform
import time


def model_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def describe():
    variables = {
        name: value
        for name, value in os.environ.items()
        if "MALLOC" in name or name.startswith("HAKMEM_") or name == "GLIBC_TUNABLES"
    }
    return {
        "cpu": model_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "environment": variables,
    }


def moment():
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "load_average": os.getloadavg()}
