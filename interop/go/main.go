// quic-go as an interop peer. Arguments and output: see interop/kit/src/lib.rs.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	ticketWait        = 150 * time.Millisecond
	migrateAfterBytes = 1 << 20
	requestsAtOnce    = 100
	serverName        = "localhost"
)

// unsupported is something that quic-go cannot do.
type unsupported string

func (u unsupported) Error() string { return string(u) }

type arguments struct {
	role, address, cert, key, www, out, kind, protocol string
	paths                                              []string
}

var facts = struct {
	sync.Mutex
	counts map[string]uint64
}{counts: map[string]uint64{}}

func fact(name string, count uint64) {
	facts.Lock()
	defer facts.Unlock()
	facts.counts[name] += count
}

func parse(words []string) (arguments, error) {
	a := arguments{kind: "transfer", protocol: "hq"}
	if len(words) == 0 || (words[0] != "client" && words[0] != "server") {
		return a, errors.New("the first argument must be `client` or `server`")
	}
	a.role = words[0]
	for i := 1; i < len(words); i++ {
		name := words[i]
		if name == "--update-keys" {
			return a, unsupported("quic-go has no call that starts a key update")
		}
		i++
		if i == len(words) {
			return a, fmt.Errorf("%s needs a value", name)
		}
		value := words[i]
		switch name {
		case "--listen", "--connect":
			a.address = value
		case "--cert", "--ca":
			a.cert = value
		case "--key":
			a.key = value
		case "--www":
			a.www = value
		case "--out":
			a.out = value
		case "--case":
			a.kind = value
		case "--protocol":
			a.protocol = value
		case "--paths":
			text, err := os.ReadFile(value)
			if err != nil {
				return a, err
			}
			a.paths = strings.Fields(string(text))
		default:
			return a, fmt.Errorf("unknown argument %s", name)
		}
	}
	return a, nil
}

func main() {
	a, err := parse(os.Args[1:])
	if err == nil {
		if a.role == "server" {
			err = serve(a)
		} else {
			err = fetchAll(a)
		}
	}
	facts.Lock()
	for name, count := range facts.counts {
		fmt.Printf("FACT %s %d\n", name, count)
	}
	facts.Unlock()
	var reason unsupported
	if errors.As(err, &reason) {
		fmt.Printf("UNSUPPORTED %s\n", string(reason))
		os.Exit(127)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func (a arguments) quicConfig() *quic.Config {
	config := &quic.Config{Allow0RTT: true}
	if strings.HasPrefix(a.kind, "v2") {
		config.Versions = []quic.Version{quic.Version2, quic.Version1}
	}
	return config
}

func (a arguments) tlsConfig() (*tls.Config, error) {
	protocol := "hq-interop"
	if a.protocol == "h3" {
		protocol = http3.NextProtoH3
	}
	config := &tls.Config{NextProtos: []string{protocol}, ServerName: serverName, MinVersion: tls.VersionTLS13}
	if name := os.Getenv("SSLKEYLOGFILE"); name != "" {
		if file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			config.KeyLogWriter = file
		}
	}
	if a.role == "server" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		config.Certificates = []tls.Certificate{pair}
		return config, err
	}
	pem, err := os.ReadFile(a.cert)
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(pem)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return config, nil
}

func readBelow(root, path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(root, filepath.Clean("/"+path)))
}

// ---- client ----

// client is one UDP socket with what goes over it.
type client struct {
	arguments
	tls       *tls.Config
	transport *quic.Transport
	received  atomic.Int64
	migrate   sync.Once
}

func newTransport() (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	return &quic.Transport{Conn: socket}, err
}

func fetchAll(a arguments) error {
	config, err := a.tlsConfig()
	if err != nil {
		return err
	}
	transport, err := newTransport()
	if err != nil {
		return err
	}
	defer transport.Close()
	c := &client{arguments: a, tls: config, transport: transport}
	if a.kind != "resumption" && a.kind != "zerortt" {
		return c.visit(a.paths, false, true)
	}
	if err := c.visit(a.paths[:1], false, false); err != nil {
		return err
	}
	return c.visit(a.paths[1:], a.kind == "zerortt", true)
}

// visit is one connection.
func (c *client) visit(paths []string, early, last bool) error {
	address, err := net.ResolveUDPAddr("udp4", c.address)
	if err != nil {
		return err
	}
	context, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dial := c.transport.Dial
	if early {
		dial = c.transport.DialEarly
	}
	connection, err := dial(context, address, c.tls, c.quicConfig())
	if err != nil {
		return err
	}
	defer connection.CloseWithError(0, "")
	if c.protocol == "h3" {
		err = c.fetchHTTP3(context, connection, paths)
	} else {
		err = each(paths, func(path string) error { return c.fetchHTTP09(context, connection, path) })
	}
	if err != nil {
		return err
	}
	if !last {
		time.Sleep(ticketWait)
	}
	state := connection.ConnectionState()
	if state.TLS.DidResume {
		fact("resumed", 1)
	}
	if state.Used0RTT {
		fact("early_accepted", 1)
	}
	return nil
}

func each(paths []string, do func(string) error) error {
	outcomes := make(chan error, len(paths))
	tickets := make(chan struct{}, requestsAtOnce)
	for _, path := range paths {
		tickets <- struct{}{}
		go func() {
			outcomes <- do(path)
			<-tickets
		}()
	}
	for range paths {
		if err := <-outcomes; err != nil {
			return err
		}
	}
	return nil
}

// counted counts what arrives, and moves the client at a certain point.
type counted struct {
	io.Reader
	client     *client
	connection *quic.Conn
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	total := r.client.received.Add(int64(n))
	if r.client.kind == "migration" && total >= migrateAfterBytes {
		r.client.migrate.Do(func() {
			go func() {
				if err := r.client.move(r.connection); err != nil {
					fmt.Fprintf(os.Stderr, "migration: %v\n", err)
				}
			}()
		})
	}
	return n, err
}

func (c *client) move(connection *quic.Conn) error {
	transport, err := newTransport()
	if err != nil {
		return err
	}
	path, err := connection.AddPath(transport)
	if err != nil {
		return err
	}
	context, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := path.Probe(context); err != nil {
		return err
	}
	fact("migrations", 1)
	return path.Switch()
}

func (c *client) save(path string, body []byte) error {
	return os.WriteFile(filepath.Join(c.out, filepath.Clean("/"+path)), body, 0o600)
}

func (c *client) fetchHTTP09(context context.Context, connection *quic.Conn, path string) error {
	stream, err := connection.OpenStreamSync(context)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", path); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	body, err := io.ReadAll(&counted{stream, c, connection})
	if err != nil {
		return err
	}
	return c.save(path, body)
}

func (c *client) fetchHTTP3(context context.Context, connection *quic.Conn, paths []string) error {
	transport := http3.Transport{}
	h3 := transport.NewClientConn(connection)
	return each(paths, func(path string) error {
		request, err := http.NewRequestWithContext(context, http.MethodGet, "https://"+serverName+path, nil)
		if err != nil {
			return err
		}
		response, err := h3.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
		body, err := io.ReadAll(&counted{response.Body, c, connection})
		if err != nil {
			return err
		}
		return c.save(path, body)
	})
}

// ---- server ----

func serve(a arguments) error {
	config, err := a.tlsConfig()
	if err != nil {
		return err
	}
	address, err := net.ResolveUDPAddr("udp4", a.address)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp4", address)
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket}
	if a.kind == "retry" {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	listener, err := transport.ListenEarly(config, a.quicConfig())
	if err != nil {
		return err
	}
	fmt.Printf("LISTENING %s\n", a.address)
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readBelow(a.www, r.URL.Path)
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.Copy(w, bytes.NewReader(body))
	})
	h3 := &http3.Server{Handler: files}
	go func() {
		for {
			connection, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			fact("connections", 1)
			if a.protocol == "h3" {
				go func() {
					if err := h3.ServeQUICConn(connection); err != nil {
						fmt.Fprintf(os.Stderr, "http3: %v\n", err)
					}
				}()
			} else {
				go a.answerAll(connection)
			}
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = listener.Close()
	return transport.Close()
}

func (a arguments) answerAll(connection *quic.Conn) {
	for {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			state := connection.ConnectionState()
			if state.TLS.DidResume {
				fact("resumed", 1)
			}
			if state.Used0RTT {
				fact("early_accepted", 1)
			}
			fmt.Fprintf(os.Stderr, "connection: %v\n", err)
			return
		}
		go func() {
			defer stream.Close()
			request, err := io.ReadAll(io.LimitReader(stream, 4096))
			if err != nil {
				return
			}
			path, found := strings.CutPrefix(strings.TrimSpace(string(request)), "GET ")
			if !found {
				return
			}
			body, err := readBelow(a.www, path)
			if err != nil {
				fmt.Fprintf(os.Stderr, "request: %v\n", err)
				return
			}
			_, _ = stream.Write(body)
		}()
	}
}
