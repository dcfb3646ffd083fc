package protocol

import "net/http"

func fileOperations() []Operation {
	const files = "/v1/sessions/{session}/files/{path}"
	return []Operation{
		// Data frames with the content follow on this request's own link.
		{
			Name: OpFileWrite, Summary: "Write a file, completely or not at all",
			Params: FileWrite{}, Result: File{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Order: Inline, Target: SessionNode, Effects: Writes,
			REST: []Route{custom(http.MethodPut, files)},
		},
		// The reply is followed by Data frames with the content.
		{
			Name: OpFileRead, Summary: "Read a file or a part of it",
			Params: FileRead{}, Result: FilePart{}, Scope: ScopeRead, Transport: HTTPOnly,
			Target: SessionNode, OneSession: true, Limit: TransferLimit,
			REST: []Route{custom(http.MethodGet, files)},
		},
		{
			Name: OpFileStat, Summary: "Describe a file",
			Params: FileStat{}, Result: File{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true,
			REST: []Route{custom(http.MethodHead, files)},
		},
		{
			Name: OpFileList, Summary: "List a folder",
			Params: FileList{}, Result: FileListing{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true,
			REST: []Route{custom(http.MethodGet, files)},
		},
		{
			Name: OpFileMkdir, Summary: "Create a folder and its parents",
			Params: FileRef{}, Result: File{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: []Route{custom(http.MethodPost, files)},
		},
		{
			Name: OpFileMove, Summary: "Move a file or a folder",
			Params: FileMove{}, Result: File{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{custom(http.MethodPost, files)},
		},
		{
			Name: OpFileCopy, Summary: "Copy a file or a folder",
			Params: FileMove{}, Result: File{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{custom(http.MethodPost, files)},
		},
		{
			Name: OpFileRemove, Summary: "Remove a file, a link or a folder",
			Params: FileRemove{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{custom(http.MethodDelete, files)},
		},
		// Events follow until the channel number is detached.
		{
			Name: OpFileWatch, Summary: "Report changes of a file or in a folder",
			Params: FileWatch{}, Result: File{}, Scope: ScopeRead, Channel: ChoosesChannel,
			Target: SessionNode, OneSession: true,
		},
		{
			Name: OpFileLink, ID: "linkFile",
			Summary: "Create a URL that reads or writes one file until a time, without other credentials",
			Params:  FileLinkCreate{}, Result: FileLink{}, Scope: ScopeRead, Transport: HTTPOnly,
			Target: AtGateway, Creates: true, REST: []Route{{
				Method: http.MethodPost, Path: "/v1/sessions/{session}/files/links",
				Status: http.StatusCreated, Body: RequiredBody, Custom: true,
			}},
		},
		{
			Name: OpFileChanges, ID: "fileChanges",
			Summary: "List the files that were created, changed or removed since an earlier answer",
			Params:  FileChangesQuery{}, Result: CreatedFiles{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true,
			REST: get("/v1/sessions/{session}/changes"),
		},
	}
}

func treeOperations() []Operation {
	const files = "/v1/sessions/{session}/files/{path}"
	return []Operation{
		// The reply is followed by Data frames with an archive.
		{
			Name: OpTreeRead, Summary: "Read a folder as an archive",
			Params: TreeRead{}, Result: File{}, Scope: ScopeRead, Transport: HTTPOnly,
			Target: SessionNode, OneSession: true, Limit: TransferLimit,
			REST: []Route{custom(http.MethodGet, files)},
		},
		// Data frames with an archive follow on this request's own link.
		{
			Name: OpTreeWrite, Summary: "Unpack an archive into a folder",
			Params: FileRef{}, Result: Tree{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Order: Inline, Target: SessionNode, Effects: Writes,
			REST: []Route{custom(http.MethodPut, files)},
		},
	}
}
