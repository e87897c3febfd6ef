# A server of Fourfold:
#   docker build -t fourfold .
#   docker run -p 127.0.0.1:8765:8765 -v fourfold:/data -e FOURFOLD_HTTP_TOKENS='*:A-SECRET-OF-16-OR-MORE' fourfold
FROM python:3.13-slim

COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE /source/
COPY src /source/src
RUN pip install --no-cache-dir "/source[files,postgres]"

# Stores in folders, answers to requests with an Idempotency-Key, and judgements are kept in /data.
RUN mkdir /data && chown 1000:1000 /data
VOLUME /data
USER 1000:1000
ENV HOME=/data XDG_DATA_HOME=/data FOURFOLD_HTTP_HOSTS=localhost
EXPOSE 8765
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/readyz', timeout=5)"]
CMD ["fourfold", "serve", "--host", "0.0.0.0", "--port", "8765"]
