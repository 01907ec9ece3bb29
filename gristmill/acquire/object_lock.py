"""S3 object lock: retaining what must never be written again.

Belongs here: the retention calls, which obstore does not offer. Does not belong here: what is retained
(``holdout.py``).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gristmill.blobs import S3Blobs, open_blobs
from gristmill.errors import HoldoutError


def lock(root: str | Path, until: str, options: Mapping[str, Any] | None = None) -> int:
    """Retain every object of the root until a date (S3 object lock, COMPLIANCE), where the bucket offers it.

    Returns:
        Objects locked; 0 where the place has no object lock (a local folder, a bucket made without it).

    Raises:
        HoldoutError: when boto3 (extra ``aws``) is missing, or the bucket refuses.
    """
    blobs = open_blobs(root, options)
    if not isinstance(blobs, S3Blobs):
        return 0
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise HoldoutError("object lock needs boto3: install the extra aws") from error
    given = dict(options or {})
    bucket, _, prefix = blobs.root.removeprefix("s3://").partition("/")
    client = boto3.client(
        "s3", endpoint_url=given.get("endpoint"), region_name=given.get("region"),
        aws_access_key_id=given.get("access_key_id"), aws_secret_access_key=given.get("secret_access_key"),
        aws_session_token=given.get("session_token"),
    )
    date = datetime.fromisoformat(until)
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    try:
        client.get_object_lock_configuration(Bucket=bucket)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in ("ObjectLockConfigurationNotFoundError", "NotImplemented"):
            return 0
        raise HoldoutError(f"{blobs.root}: object lock cannot be asked for: {error}") from error
    count = 0
    for path, _ in blobs.list(""):
        try:
            client.put_object_retention(Bucket=bucket, Key=f"{prefix}/{path}" if prefix else path,
                                        Retention={"Mode": "COMPLIANCE", "RetainUntilDate": date})
        except (ClientError, BotoCoreError) as error:
            raise HoldoutError(f"{blobs.root}/{path} cannot be locked: {error}") from error
        count += 1
    return count
