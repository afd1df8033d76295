// Package loopback enables the loopback device of a new network namespace. It is for Linux; elsewhere it is empty.
package loopback
