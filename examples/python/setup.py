"""Builds the package: the modules of the API, numaloc.v1, are generated from the proto files of the checkout."""

import shutil
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
PROTOS = HERE.parents[1] / "proto"


class Generate(build_py):
    def run(self):
        super().run()
        generate(HERE / "src" if self.editable_mode else HERE / self.build_lib)


def generate(out):
    """Modules, their stubs for type checkers, and the clients of services with theirs."""
    files = sorted(PROTOS.glob("numaloc/v1/*.proto"))
    if not files:
        raise SystemExit(f"no proto files in {PROTOS}: numaloc is built in a checkout of its repository")
    shutil.rmtree(out / "numaloc/v1", ignore_errors=True)
    described = out / "api.binpb"
    written = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    own = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{PROTOS}", f"-I{own}", *written, f"--descriptor_set_out={described}", *map(str, files)]
    if protoc.main(["protoc", *arguments]) != 0:
        raise SystemExit("protoc has failed")
    api = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes())
    described.unlink()
    for file in api.file:
        if file.service:
            name = file.name.removesuffix(".proto") + "_pb2_grpc.pyi"
            (out / name).write_text("\n".join(stubs(file, api)) + "\n", encoding="utf-8")


def stubs(file, api):
    """Types of what protoc's plugin for gRPC writes without any."""
    modules = {
        f".{other.package}.{message.name}": other.name.removesuffix(".proto").replace("/", ".") + "_pb2"
        for other in api.file
        for message in other.message_type
    }
    used = {modules[name] for service in file.service for method in service.method for name in (method.input_type, method.output_type)}
    yield "import grpc"
    yield from (f"import {module}" for module in sorted(used))
    for service in file.service:
        yield f"\nclass {service.name}Stub:"
        yield "    def __init__(self, channel: grpc.Channel) -> None: ..."
        for method in service.method:
            kind = "".join("Stream" if stream else "Unary" for stream in (method.client_streaming, method.server_streaming))
            types = (f"{modules[name]}.{name.rpartition('.')[2]}" for name in (method.input_type, method.output_type))
            yield f"    {method.name}: grpc.{kind}MultiCallable[{', '.join(types)}]"


setup(cmdclass={"build_py": Generate})
