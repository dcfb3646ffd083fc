// Package mime names the types of files.
package mime

import (
	"path"
	"strings"
)

// TypeOf returns the type of a file by its name. The list is fixed, so that all nodes and gateways
// answer the same.
func TypeOf(name string) string {
	kind, ok := map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
		".webp": "image/webp", ".svg": "image/svg+xml", ".bmp": "image/bmp", ".ico": "image/x-icon",
		".tif": "image/tiff", ".tiff": "image/tiff", ".avif": "image/avif",
		".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac",
		".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime",
		".html": "text/html", ".htm": "text/html", ".css": "text/css", ".csv": "text/csv",
		".tsv": "text/tab-separated-values", ".md": "text/markdown", ".txt": "text/plain",
		".log": "text/plain", ".xml": "application/xml", ".yaml": "application/yaml",
		".yml": "application/yaml", ".toml": "application/toml", ".json": "application/json",
		".ndjson": "application/x-ndjson", ".jsonl": "application/x-ndjson",
		".geojson": "application/geo+json", ".ipynb": "application/x-ipynb+json",
		".js": "text/javascript", ".mjs": "text/javascript", ".ts": "text/x-typescript",
		".tsx": "text/x-typescript", ".py": "text/x-python", ".go": "text/x-go",
		".java": "text/x-java", ".php": "text/x-php", ".sh": "text/x-shellscript",
		".c": "text/x-c", ".h": "text/x-c", ".cpp": "text/x-c++", ".rs": "text/x-rust",
		".sql": "application/sql", ".pdf": "application/pdf", ".zip": "application/zip",
		".tar": "application/x-tar", ".gz": "application/gzip", ".tgz": "application/gzip",
		".xz": "application/x-xz", ".zst": "application/zstd", ".bz2": "application/x-bzip2",
		".wasm": "application/wasm", ".parquet": "application/vnd.apache.parquet",
		".sqlite": "application/vnd.sqlite3", ".db": "application/vnd.sqlite3",
		".xls":  "application/vnd.ms-excel",
		".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
		".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".otf": "font/otf",
		".npy": "application/x-npy", ".npz": "application/x-npz", ".h5": "application/x-hdf5",
	}[strings.ToLower(path.Ext(name))]
	if !ok {
		return "application/octet-stream"
	}
	return kind
}
