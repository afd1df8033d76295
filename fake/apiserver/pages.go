package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/fake/internal/openapi"
)

// addETag sets the ETag of the content, and drops the body if the client has it already.
func (r *request) addETag(a answer, content []byte) answer {
	etag := strconv.Quote(openapi.Hash(content))
	a.header.Set("ETag", etag)
	a.header.Set("Vary", "Accept")
	for have := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == etag || have == "*" {
			a.code, a.body = http.StatusNotModified, nil
			a.header.Del("Content-Type")
			return a
		}
	}
	return a
}

// documents returns the OpenAPI documents of the resources that are served now.
func (h *handler) documents() *openapi.Document {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.server.Generation(); h.document == nil || h.generation != now {
		h.document, h.generation = openapi.New(h.server.Resources()), now
	}
	return h.document
}

// openapi answers with an OpenAPI document.
func (r *request) openapi(parts []string) answer {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return r.errorAnswer(errMethod())
	}
	switch {
	case len(parts) == 2 && parts[1] == "v2":
		body, contentType := r.h.documents().V2(r.Header.Get("Accept"))
		if body == nil {
			return newAnswer(http.StatusNotAcceptable, "text/plain; charset=utf-8", nil)
		}
		return r.addETag(newAnswer(http.StatusOK, contentType, body), body)
	case len(parts) == 2 && parts[1] == "v3":
		body := r.h.documents().V3Index()
		return r.addETag(newAnswer(http.StatusOK, "text/plain; charset=utf-8", body), body)
	case len(parts) > 2 && parts[1] == "v3":
		path := strings.Join(parts[2:], "/")
		if body, ok := r.h.documents().V3(path); ok {
			return r.checkHash(path, r.addETag(newAnswer(http.StatusOK, mediaJSON, body), body), openapi.Hash(body))
		}
	}
	return pageNotFound()
}

// checkHash completes the answer to a request for a document with a hash. If the hash matches, the
// document is immutable. Otherwise the answer redirects to the current hash.
//
// Differs: there is no Expires header, which would contain a time.
//
// Upstream: k8s.io/kube-openapi/pkg/handler3 OpenAPIService.HandleGroupVersion.
func (r *request) checkHash(path string, a answer, current string) answer {
	switch asked := r.query.Get("hash"); {
	case asked == current:
		a.header.Set("Cache-Control", "public, immutable")
	case asked != "":
		a.code, a.body = http.StatusMovedPermanently, nil
		a.header.Set("Location", "/openapi/v3/"+path+"?hash="+current)
	}
	return a
}

// version answers with the Kubernetes version.
func (r *request) version() answer {
	if r.Method != http.MethodGet {
		return r.errorAnswer(errMethod())
	}
	return page(r.h.server.Version())
}

// health answers a health check. A server that answers is healthy.
func (r *request) health(parts []string) answer {
	text := "ok"
	if _, verbose := r.query["verbose"]; verbose && len(parts) == 1 {
		text = "[+]ping ok\n" + parts[0] + " check passed\n"
	} else if len(parts) == 2 && parts[1] != "ping" {
		return pageNotFound()
	}
	a := newAnswer(http.StatusOK, "text/plain; charset=utf-8", []byte(text))
	a.header.Set("X-Content-Type-Options", "nosniff")
	return a
}

// paths answers with the list of root paths.
func (r *request) paths() answer {
	if r.Method != http.MethodGet {
		return r.errorAnswer(errMethod())
	}
	all := []string{"/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
	for _, g := range r.h.groups() {
		at := "/apis/" + g.name
		if g.name == "" {
			at = "/api"
		} else {
			all = append(all, at)
		}
		for _, v := range g.versions {
			all = append(all, at+"/"+v.name)
		}
	}
	slices.Sort(all)
	return page(map[string]any{"paths": all})
}

// page answers with a value in indented JSON.
func page(value any) answer {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // the values are strings
	}
	return newAnswer(http.StatusOK, mediaJSON, body)
}
