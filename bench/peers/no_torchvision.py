"""Stand in for the two names of torchvision that mosaicml-streaming imports; import this first.

The torchvision that it asks for does not load beside torch's CPU build, and reading tokens uses neither name.
"""

import importlib.machinery
import sys
import types


def _module(name: str, **names) -> None:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    vars(module).update(names)
    sys.modules[name] = module


_module("torchvision")
_module("torchvision.datasets", VisionDataset=type("VisionDataset", (), {}))
_module("torchvision.transforms")
_module("torchvision.transforms.functional", to_tensor=None)
