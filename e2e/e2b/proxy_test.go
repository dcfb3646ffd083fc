package e2b

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// A proxy ends TLS for all names below sbx.test, as a proxy in front of a server does.
type proxy struct {
	server *http.Server
	// certificate is the file with its certificate, which signs itself.
	certificate string
}

func newProxy(l net.Listener, target, dir string) (*proxy, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	certificate, file, err := selfSigned(dir)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	p := &proxy{certificate: file, server: &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.Out.Host = r.In.Host
			},
			Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}}
	go p.server.ServeTLS(l, "", "")
	return p, nil
}

func (p *proxy) close() { p.server.Close() }

// selfSigned returns a certificate for sbx.test and the names below it, and writes it to a file.
func selfSigned(dir string) (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sbx.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		DNSNames: []string{"sbx.test", "*.sbx.test"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	file := filepath.Join(dir, "certificate.pem")
	err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file, err
}
