"""What an error of the daemon carries besides its code: docs/api.md, Errors."""

from typing import cast

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status


def reason(error: grpc.RpcError) -> str:
    """Why a call was refused, for programs: such as TARGET_NOT_FOUND. Empty: the daemon has not sent the error."""
    info = error_details_pb2.ErrorInfo()
    return info.reason if detail(error, info) else ""


def metadata(error: grpc.RpcError) -> dict[str, str]:
    """What the error is about, such as `resource`, by the keys that docs/api.md has for its reason."""
    info = error_details_pb2.ErrorInfo()
    return dict(info.metadata) if detail(error, info) else {}


def retry_delay(error: grpc.RpcError) -> float | None:
    """Seconds after which the daemon wants the call to be repeated, if it names them."""
    info = error_details_pb2.RetryInfo()
    return info.retry_delay.ToTimedelta().total_seconds() if detail(error, info) else None


def detail(error: grpc.RpcError, wanted: Message) -> bool:
    """Fills `wanted` from the details of an error. False: the error has no such detail."""
    # What a stub raises is both.
    status = rpc_status.from_call(cast(grpc.Call, error))
    return any(each.Unpack(wanted) for each in status.details) if status else False
