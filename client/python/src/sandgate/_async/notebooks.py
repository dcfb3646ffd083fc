"""Stored notebooks: the copies that the server keeps outside of sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, cast

from .. import protocol
from ..errors import NotFound

if TYPE_CHECKING:
    from .client import AsyncClient


class AsyncNotebooks:
    """Stored notebooks: copies of each saved ``*.ipynb`` file, in versions."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self, session: Optional[str] = None) -> List[protocol.Notebook]:
        """Return the notebooks of a session or of the tenant, the one that was saved last first."""
        params = {"session": session} if session else {}
        reply = await self._client._call("notebook.list", params, True)
        return cast(List[protocol.Notebook], reply["notebooks"])

    async def versions(self, notebook: str) -> List[protocol.NotebookVersion]:
        """Return the versions of a notebook, newest first."""
        reply = await self._client._call("notebook.versions", {"notebook": notebook}, True)
        return cast(List[protocol.NotebookVersion], reply["versions"])

    async def read(self, notebook: str, version: Optional[str] = None) -> str:
        """Return the text of a version, the content of the file.

        Args:
            notebook: the id of the notebook.
            version: the id of the version; the newest by default.

        Raises:
            Conflict: a save replaced the version meanwhile.
        """
        if version is None:
            found = await self.versions(notebook)
            if not found:
                raise NotFound("the notebook has no version", field="version")
            version = found[0]["id"]
        parts: List[str] = []
        params: Dict[str, Any] = {"notebook": notebook, "version": version, "offset": 0}
        while True:
            part = await self._client._call("notebook.read", params, True)
            parts.append(part["text"])
            params["offset"] = part.get("next", 0)
            if not params["offset"]:
                return "".join(parts)

    async def name(
        self, notebook: str, version: str, name: str, *, closed: bool = False
    ) -> protocol.NotebookVersion:
        """Give a version a name, with which it is kept; an empty name removes it.

        Args:
            notebook: the id of the notebook.
            version: the id of the version.
            name: the name.
            closed: the next save begins another version.
        """
        params: Dict[str, Any] = {"notebook": notebook, "version": version, "name": name}
        if closed:
            params["closed"] = True
        reply = await self._client._call("notebook.name", params, True)
        return cast(protocol.NotebookVersion, reply)

    async def delete(self, notebook: str) -> None:
        """Delete a stored notebook with all versions. The file in the session stays."""
        await self._client._call("notebook.delete", {"notebook": notebook})
