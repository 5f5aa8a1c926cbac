// quic-go under the bench's loads: the same programs as the Rust peers, see ../kit.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	connectionWindow = 64 << 20
	streamWindow     = 32 << 20
	streams          = 1000
	blockBytes       = 1 << 20
	answerBytes      = 32
	socketBuffer     = 7 << 20
)

var (
	identity = flag.String("identity", "", "folder with the certificates")
	mb       = flag.Uint64("mb", 1000, "megabytes to download, in all")
	atOnce   = flag.Int("at-once", 1, "streams, connections, or requests at once")
	seconds  = flag.Float64("seconds", 5, "how long to repeat requests or handshakes")
)

type usage struct{ user, system float64 }

func usageNow() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return usage{seconds(r.Utime), seconds(r.Stime)}
}

func (start usage) since() string {
	now := usageNow()
	return fmt.Sprintf(`"user":%.6f,"system":%.6f`, now.user-start.user, now.system-start.system)
}

func transport() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         streamWindow,
		InitialConnectionReceiveWindow: connectionWindow,
		MaxConnectionReceiveWindow:     connectionWindow,
		MaxIncomingStreams:             streams,
	}
}

func socket() (*quic.Transport, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	// Best effort, as with the other programs: the kernel grants what it allows.
	_ = conn.SetReadBuffer(socketBuffer)
	_ = conn.SetWriteBuffer(socketBuffer)
	return &quic.Transport{Conn: conn}, nil
}

func server() error {
	certificate, err := tls.LoadX509KeyPair(
		filepath.Join(*identity, "certificate.pem"), filepath.Join(*identity, "key.pem"))
	if err != nil {
		return err
	}
	udp, err := socket()
	if err != nil {
		return err
	}
	listener, err := udp.Listen(&tls.Config{
		Certificates:           []tls.Certificate{certificate},
		NextProtos:             []string{"bench"},
		CurvePreferences:       []tls.CurveID{tls.X25519},
		SessionTicketsDisabled: true,
	}, transport())
	if err != nil {
		return err
	}
	start := usageNow()
	fmt.Printf("{\"address\":%q}\n", udp.Conn.LocalAddr().String())
	go func() {
		block := make([]byte, blockBytes)
		for i := range block {
			block[i] = 7
		}
		for {
			conn, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			go answer(conn, block)
		}
	}()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	fmt.Printf("{%s}\n", start.since())
	return nil
}

func answer(conn *quic.Conn, block []byte) {
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			request, err := io.ReadAll(stream)
			if err != nil {
				return
			}
			left := uint64(answerBytes)
			if len(request) == 8 {
				left = binary.BigEndian.Uint64(request)
			}
			for left > 0 {
				now := min(left, uint64(len(block)))
				if _, err := stream.Write(block[:now]); err != nil {
					return
				}
				left -= now
			}
			_ = stream.Close()
		}()
	}
}

type client struct {
	udp    *quic.Transport
	tls    *tls.Config
	server net.Addr
}

func (c *client) connect() (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.udp.Dial(ctx, c.server, c.tls, transport())
}

func newClient(server string) (*client, error) {
	pem, err := os.ReadFile(filepath.Join(*identity, "authority.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no authority certificate")
	}
	address, err := net.ResolveUDPAddr("udp4", server)
	if err != nil {
		return nil, err
	}
	udp, err := socket()
	if err != nil {
		return nil, err
	}
	return &client{udp, &tls.Config{
		RootCAs:          roots,
		ServerName:       "localhost",
		NextProtos:       []string{"bench"},
		CurvePreferences: []tls.CurveID{tls.X25519},
	}, address}, nil
}

// exchange sends a request and reads the answer to its end.
func exchange(conn *quic.Conn, request, buffer []byte) (uint64, error) {
	stream, err := conn.OpenStreamSync(context.Background())
	if err != nil {
		return 0, err
	}
	if _, err := stream.Write(request); err != nil {
		return 0, err
	}
	if err := stream.Close(); err != nil {
		return 0, err
	}
	var total uint64
	for {
		n, err := stream.Read(buffer)
		total += uint64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// atOnceDo runs work in several goroutines and returns the first error.
func atOnceDo(work func() error) error {
	var group sync.WaitGroup
	failed := make(chan error, *atOnce)
	for range *atOnce {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := work(); err != nil {
				failed <- err
			}
		}()
	}
	group.Wait()
	close(failed)
	return <-failed
}

func (c *client) bulk() (string, error) {
	conn, err := c.connect()
	if err != nil {
		return "", err
	}
	each := *mb * 1_000_000 / uint64(*atOnce)
	request := binary.BigEndian.AppendUint64(nil, each)
	start := time.Now()
	err = atOnceDo(func() error {
		total, err := exchange(conn, request, make([]byte, 64<<10))
		if err == nil && total != each {
			err = fmt.Errorf("%d bytes came instead of %d", total, each)
		}
		return err
	})
	elapsed := time.Since(start).Seconds()
	_ = conn.CloseWithError(0, "")
	return fmt.Sprintf(`"bytes":%d,"seconds":%.6f`, each*uint64(*atOnce), elapsed), err
}

func (c *client) handshakes() (string, error) {
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	var count int
	var lock sync.Mutex
	err := atOnceDo(func() error {
		for time.Now().Before(end) {
			conn, err := c.connect()
			if err != nil {
				return err
			}
			_ = conn.CloseWithError(0, "")
			lock.Lock()
			count++
			lock.Unlock()
		}
		return nil
	})
	return fmt.Sprintf(`"count":%d,"seconds":%.6f`, count, time.Since(start).Seconds()), err
}

func (c *client) requests() (string, error) {
	conn, err := c.connect()
	if err != nil {
		return "", err
	}
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	var latencies []int64
	var lock sync.Mutex
	err = atOnceDo(func() error {
		var mine []int64
		buffer := make([]byte, 64)
		for {
			begin := time.Now()
			if !begin.Before(end) {
				break
			}
			total, err := exchange(conn, []byte("?"), buffer)
			if err != nil {
				return err
			}
			if total != answerBytes {
				return fmt.Errorf("an answer of %d bytes", total)
			}
			mine = append(mine, time.Since(begin).Microseconds())
		}
		lock.Lock()
		latencies = append(latencies, mine...)
		lock.Unlock()
		return nil
	})
	elapsed := time.Since(start).Seconds()
	_ = conn.CloseWithError(0, "")
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	at := func(share float64) int64 {
		if len(latencies) == 0 {
			return 0
		}
		return latencies[min(int(float64(len(latencies))*share), len(latencies)-1)]
	}
	return fmt.Sprintf(`"count":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d,"p999_us":%d`,
		len(latencies), elapsed, at(0.5), at(0.99), at(0.999)), err
}

func run() error {
	flag.Parse()
	role := flag.Arg(0)
	if role == "server" {
		return server()
	}
	if role != "client" || flag.NArg() < 3 {
		return errors.New("say: --identity DIR [FLAGS] server | client ADDRESS LOAD [FLAGS]")
	}
	address, load := flag.Arg(1), flag.Arg(2)
	if err := flag.CommandLine.Parse(flag.Args()[3:]); err != nil {
		return err
	}
	// A load that hangs shall not hold up the bench.
	time.AfterFunc(180*time.Second, func() {
		fmt.Fprintln(os.Stderr, "error: it takes too long")
		os.Exit(1)
	})
	start := usageNow()
	c, err := newClient(address)
	if err != nil {
		return err
	}
	loads := map[string]func() (string, error){
		"bulk": c.bulk, "handshakes": c.handshakes, "requests": c.requests,
	}
	if loads[load] == nil {
		return fmt.Errorf("quic-go has no load %q", load)
	}
	figures, err := loads[load]()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "{%s,%s}\n", figures, start.since())
	return out.Flush()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
