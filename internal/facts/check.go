package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Check checks a fact against the server of a client, in a new namespace, and deletes what it
// created. The error names the first request with another answer. It is ErrUnsupported if the
// client cannot make one of the requests.
func Check(ctx context.Context, client Client, f Fact) error {
	r := &run{client: client, fact: f, vars: map[string]any{}, streams: map[string]Stream{}}
	defer r.close()
	ns, err := r.do(ctx, Request{
		Verb: "create", Resource: resources["namespaces"].GroupVersionResource,
		Body: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"fact-"}}`),
	})
	if err != nil {
		return err
	}
	if !ns.ok() {
		return fmt.Errorf("create namespace: %d %v", ns.Code, ns.Body["message"])
	}
	r.vars["ns"] = nameOf(ns.Body)
	err = r.steps(ctx)
	return errors.Join(err, r.cleanUp(ctx))
}

// run is the check of one fact.
type run struct {
	client  Client
	fact    Fact
	vars    map[string]any
	streams map[string]Stream
	created []Request // created objects, to delete at the end
}

func (r *run) close() {
	for _, s := range r.streams {
		s.Close()
	}
}

func (r *run) steps(ctx context.Context) error {
	for _, s := range r.fact.steps {
		if err := r.step(ctx, s); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", r.fact.file, s.line, s.text, err)
		}
	}
	return nil
}

func (r *run) step(ctx context.Context, s step) error {
	want := s.want
	if s.differs != nil && !r.client.Traits().Real {
		want = *s.differs
	}
	if s.verb == "events" {
		return r.events(ctx, s.with, want.body)
	}
	req, err := r.request(s)
	if err != nil {
		return err
	}
	if s.verb == "watch" {
		return r.watch(ctx, s, req, want)
	}
	got, err := r.do(ctx, req)
	if err != nil {
		return err
	}
	return r.checkResponse(s, want, got)
}

// checkResponse compares an answer with the expected one, and stores it.
func (r *run) checkResponse(s step, want expectation, got Response) error {
	if err := r.matchResponse(want, got); err != nil {
		return err
	}
	r.vars["it"] = got.Body
	if s.as != "" {
		r.vars[s.as] = got.Body
	}
	return nil
}

// do makes a request, and records the object that it created.
func (r *run) do(ctx context.Context, req Request) (Response, error) {
	got, err := r.client.Do(ctx, req)
	if err != nil || !got.ok() || req.Path != "" || req.Subresource != "" || req.Query.Has("dryRun") {
		return got, err
	}
	if req.Verb == "create" || req.Verb == "update" || req.Verb == "patch" {
		if name := nameOf(got.Body); name != "" {
			created := Request{Resource: req.Resource, Namespace: req.Namespace, Name: name}
			same := func(m Request) bool {
				return m.Resource == created.Resource && m.Namespace == created.Namespace && m.Name == created.Name
			}
			if !slices.ContainsFunc(r.created, same) {
				r.created = append(r.created, created)
			}
		}
	}
	return got, err
}

// cleanUp deletes what the fact created, in reverse order. It removes finalizers.
func (r *run) cleanUp(ctx context.Context) error {
	for _, m := range slices.Backward(r.created) {
		release := m
		release.Verb, release.Body = "patch", []byte(`{"metadata":{"finalizers":null}}`)
		release.Header = http.Header{"Content-Type": {patches["merge"]}}
		m.Verb, m.Body = "delete", []byte(`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Background"}`)
		todo := []Request{release, m}
		if m.Resource.Resource == "namespaces" {
			end := m
			end.Verb, end.Subresource = "update", "finalize"
			end.Body = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, m.Name)
			todo = append(todo, end)
		}
		for _, req := range todo {
			if _, err := r.client.Do(ctx, req); err != nil {
				return fmt.Errorf("delete %s %s: %w", m.Resource.Resource, m.Name, err)
			}
		}
	}
	return nil
}

// request returns the request of a step.
func (r *run) request(s step) (Request, error) {
	name, err := r.expand(s.name)
	if err != nil {
		return Request{}, err
	}
	req := Request{
		Verb: s.verb, Resource: s.resource.GroupVersionResource, Name: name, Subresource: s.sub,
		Query: url.Values{}, Header: s.header.Clone(),
	}
	if req.Path, err = r.expand(s.path); err != nil {
		return Request{}, err
	}
	for k, values := range s.query {
		for _, v := range values {
			if v, err = r.expand(v); err != nil {
				return Request{}, err
			}
			req.Query.Add(k, v)
		}
	}
	if s.resource.namespaced {
		req.Namespace, _ = r.vars["ns"].(string)
		switch {
		case s.namespace == "*":
			req.Namespace = ""
		case s.namespace != "":
			if req.Namespace, err = r.expand(s.namespace); err != nil {
				return Request{}, err
			}
		}
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if s.patch != "" {
		req.Header.Set("Content-Type", s.patch)
	}
	req.Body, err = r.body(s, req)
	return req, err
}

// body returns the body of a request.
func (r *run) body(s step, req Request) ([]byte, error) {
	if s.raw != "" {
		text, err := r.expand(s.raw)
		return []byte(text), err
	}
	if !s.hasBody && s.with == "" && s.verb != "create" && s.verb != "update" {
		return nil, nil
	}
	body, err := r.substitute(s.body)
	if err != nil {
		return nil, err
	}
	if s.with != "" {
		base, ok := r.fact.lets[s.with]
		if !ok {
			base, ok = r.vars[s.with]
		}
		if !ok {
			return nil, fmt.Errorf("no value %q", s.with)
		}
		if base, err = r.substitute(base); err != nil {
			return nil, err
		}
		if body = overlay(base, body); body == nil {
			return nil, fmt.Errorf("%w: value %q is not shown", ErrUnsupported, s.with)
		}
	}
	switch {
	case s.path == "" && (s.verb == "create" || s.verb == "update"):
		body = r.fillIdentity(s, req, body)
	case s.patch == patches["apply"]:
		body = overlay(map[string]any{"metadata": map[string]any{"name": req.Name}}, body)
	}
	return json.Marshal(body)
}

// fillIdentity sets apiVersion, kind and name where they are missing.
func (r *run) fillIdentity(s step, req Request, body any) any {
	obj, ok := body.(map[string]any)
	if !ok {
		if body != nil {
			return body
		}
		obj = map[string]any{}
	}
	meta, _ := obj["metadata"].(map[string]any)
	fill := map[string]any{}
	if s.sub == "" || s.sub == "status" || s.sub == "finalize" || s.sub == "ephemeralcontainers" {
		fill["apiVersion"], fill["kind"] = s.resource.GroupVersion().String(), s.resource.kind
	}
	if _, named := meta["name"]; !named && req.Name != "" {
		fill["metadata"] = map[string]any{"name": req.Name}
	}
	return overlay(fill, obj)
}

// watch starts a watch, and compares its first events.
func (r *run) watch(ctx context.Context, s step, req Request, want expectation) error {
	stream, got, err := r.client.Watch(ctx, req)
	if err != nil {
		return err
	}
	events := want.body
	if stream != nil {
		want.body = nil
		name := s.as
		if name == "" {
			name = "it"
		}
		if old := r.streams[name]; old != nil {
			old.Close()
		}
		r.streams[name] = stream
		if err := r.matchResponse(want, got); err != nil {
			return err
		}
		return r.events(ctx, name, events)
	}
	return r.checkResponse(s, want, got)
}

// events compares the next events of an open watch.
func (r *run) events(ctx context.Context, name string, want any) error {
	stream := r.streams[name]
	if stream == nil {
		return fmt.Errorf("no open watch %q", name)
	}
	if want == nil {
		return nil
	}
	list, ok := want.([]any)
	if !ok {
		return errors.New("expected events of a watch must be a list")
	}
	for i, w := range list {
		if err := r.event(ctx, stream, w); err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *run) event(ctx context.Context, stream Stream, want any) error {
	if want == "end" {
		e, err := stream.Next(ctx)
		if err == nil {
			return fmt.Errorf("got %s; want the end", describeEvent(e))
		}
		return ignoreEOF(err)
	}
	m, ok := want.(map[string]any)
	if !ok || len(m) != 1 {
		return fmt.Errorf("invalid event %v", want)
	}
	for head, object := range m {
		kind, until := strings.CutPrefix(head, "until ")
		for {
			e, err := stream.Next(ctx)
			if err != nil {
				return fmt.Errorf("want %s: %w", head, err)
			}
			err = fmt.Errorf("got %s; want %s", describeEvent(e), kind)
			if e.Type == kind || kind == "…" {
				err = r.match("", object, e.Object)
			}
			if err == nil {
				return nil
			}
			if !until {
				return fmt.Errorf("%w (%s)", err, describeEvent(e))
			}
		}
	}
	return nil
}

func describeEvent(e Event) string {
	text, err := json.Marshal(e.Object)
	if err != nil {
		return err.Error()
	}
	return e.Type + " " + string(text)
}

func nameOf(body map[string]any) string {
	meta, _ := body["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return name
}
