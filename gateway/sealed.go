package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// What a gateway has browsers keep, or gateways hand on, is sealed with the secret of the node's
// table: any gateway of the node opens it, and a restart changes nothing.

// sealedThing is what is sealed, and until when it is good.
type sealedThing[T any] struct {
	Until int64 `json:"u"`
	Thing T     `json:"t"`
}

// sealer returns what seals for a purpose. What is sealed for one is nothing
// for another.
func (g *Gateway) sealer(purpose string) (cipher.AEAD, error) {
	x, err := g.keys.told("gateway.seal")
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, x.Seal)
	mac.Write([]byte("sandgate seal\x00" + purpose))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "gateway.seal", err)
	}
	aead, err := cipher.NewGCM(block)
	return aead, fault.Wrap(fault.Internal, "gateway.seal", err)
}

// sealFor returns thing as text that only gateways can read, for a life.
func sealFor[T any](g *Gateway, purpose string, life time.Duration, thing T) (string, error) {
	aead, err := g.sealer(purpose)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(sealedThing[T]{time.Now().Add(life).Unix(), thing})
	if err != nil {
		return "", fault.Wrap(fault.Internal, "gateway.seal", err)
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, nil)), nil
}

// openSealed returns what was sealed for the purpose. ok is false for what was
// not, or is over.
func openSealed[T any](g *Gateway, purpose, text string) (thing T, ok bool, err error) {
	aead, err := g.sealer(purpose)
	if err != nil {
		return thing, false, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < aead.NonceSize() {
		return thing, false, nil
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], nil)
	if err != nil {
		return thing, false, nil
	}
	var s sealedThing[T]
	if json.Unmarshal(plain, &s) != nil || time.Now().Unix() >= s.Until {
		return thing, false, nil
	}
	return s.Thing, true, nil
}
