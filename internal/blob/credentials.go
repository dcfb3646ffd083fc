package blob

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sandgate/sandgate/protocol/fault"
)

// credentialsLife is how long credentials are used before their file is read again, so that they
// can be changed without a pauseart.
const credentialsLife = time.Minute

// maxCredentials is the maximum size of the file in bytes.
const maxCredentials = 16 << 10

// credentials reads a file in the format of AWS's tools: lines with aws_access_key_id,
// aws_secret_access_key and optionally aws_session_token. Only the first section counts.
type credentials struct{ path string }

// Retrieve reads the file. It implements aws.CredentialsProvider.
func (c credentials) Retrieve(context.Context) (aws.Credentials, error) {
	const op = "blob.credentials"
	out := aws.Credentials{
		Source: "file", CanExpire: true,
		Expires: time.Now().Add(credentialsLife),
	}
	bad := func(message string, err error) (aws.Credentials, error) {
		return aws.Credentials{}, &fault.Error{
			Kind: fault.Host, Op: op,
			Field: "cluster.s3_credentials_file", Message: message, Err: err,
		}
	}
	info, err := os.Stat(c.path)
	if err != nil {
		return bad("cannot read "+c.path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return bad(fmt.Sprintf("%s can be read by others than its owner: chmod 600 %[1]s", c.path),
			nil)
	}
	if info.Size() > maxCredentials {
		return bad(fmt.Sprintf("%s has more than %d bytes", c.path, maxCredentials), nil)
	}
	text, err := os.ReadFile(c.path)
	if err != nil {
		return bad("cannot read "+c.path, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") && out.AccessKeyID != "" {
			break
		}
		name, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "aws_access_key_id":
			out.AccessKeyID = value
		case "aws_secret_access_key":
			out.SecretAccessKey = value
		case "aws_session_token":
			out.SessionToken = value
		}
	}
	if out.AccessKeyID == "" || out.SecretAccessKey == "" {
		return bad(c.path+" has no lines aws_access_key_id=… and aws_secret_access_key=…", nil)
	}
	return out, nil
}
