// Package facts is what an API server of the storage world does, as several hundred small facts: a request, and what comes
// back. Each was put to a real kube-apiserver; so whoever answers all of them works as it does.
//
// The facts stand in book/, grouped by noun, in a form that reads as a story:
//
//	# A stale update is a conflict.
//	create claims/a with claim as first
//	patch claims/a merge
//	    metadata: {labels: {n: "1"}}
//	update claims/a with first
//	→ 409 Conflict: Operation cannot be fulfilled on persistentvolumeclaims "a": …
//
// A comment names the fact. A line is a request: verb, object, options as key=value, "with" what its body is made of
// (what a "let" of the file says, or an earlier answer), "as" the name of its answer; the answer to the last request is
// "it". What is indented below a request is YAML: its body, or what is changed in what it is made of, where null takes
// away. Names and what is known of the type are filled in. "in other" is another namespace, "in *" all of them; $ns is
// the fact's own, fresh one.
//
// An arrow says what comes back: code, reason, message. What is indented below it must be in the body; of lists, each
// element. $name stands for a value: it is caught where it is not known yet, and must be equal where it is. "…" is any
// text or value, null is none, "≠" is anything but. $warnings, $headers and $text are keys of what is not in the body.
// A request without an arrow succeeds. "differs →" says what our server answers where it does otherwise on purpose.
//
//	watch claims resourceVersion=$rv
//	→ 200
//	    - ADDED: {metadata: {name: a}}
//	    - until BOOKMARK: {}
//	    - end
//
// reads events, each the next, or the next such after "until"; "events" reads on. A fact that says "only http" is about the
// wire. One that says "alone" must have the server for itself.
//
// [Check] puts a fact to a server by a [Client]: typed client, untyped client, or HTTP.
package facts
