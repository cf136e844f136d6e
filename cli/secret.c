/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST_PASSWORD 4096

/*
 * Finds the password of a URL that ends before `end`: between the first colon behind :// and the
 * last @, wherever that is, because a password may contain an @ or a / that should have been
 * percent-encoded.
 */
static size_t find_password(char *url, const char *end, char **ret_start)
{
    char *user = strstr(url, "://");
    char *at = user != NULL ? memrchr(user, '@', (size_t)(end - user)) : NULL;
    char *colon = at != NULL ? memchr(user + 3, ':', (size_t)(at - user - 3)) : NULL;

    if (colon == NULL) {
        return 0;
    }
    *ret_start = colon + 1;
    return (size_t)(at - colon - 1);
}

void cli_url_hide_password(char *url)
{
    char *password = NULL;
    const size_t len = find_password(url, url + strlen(url), &password);

    if (len > 0) {
        memset(password, '*', len);
    }
}

/* Redacts the URL that ends before `end`; returns where it ends now. */
static char *redact_until(char *url, char *end)
{
    char *password = NULL;
    const size_t len = find_password(url, end, &password);
    const size_t stars = len < 3 ? len : 3;

    if (len == 0) {
        return end;
    }
    memset(password, '*', stars);
    memmove(password + stars, password + len, strlen(password + len) + 1);
    return end - (len - stars);
}

void cli_url_redact(char *url)
{
    (void)redact_until(url, url + strlen(url));
}

void cli_text_redact(char *text)
{
    char *url;

    while ((url = strstr(text, "://")) != NULL) {
        text = redact_until(url, url + strcspn(url, " \t\n"));
    }
}

/* Reads up to size - 1 bytes and ends them with NUL. Returns how many, or -1. */
static ssize_t read_all(int fd, char *buffer, size_t size)
{
    size_t len = 0;

    while (len < size - 1) {
        const ssize_t n = read(fd, buffer + len, size - 1 - len);

        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    buffer[len] = '\0';
    return (ssize_t)len;
}

static const char *read_password(int fd, char **ret_password)
{
    char buffer[LONGEST_PASSWORD];
    struct stat status;
    const char *wrong = NULL;

    if (fstat(fd, &status) != 0 || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return "can be read by others; chmod 600 it";
    }
    if (read_all(fd, buffer, sizeof(buffer)) < 0) {
        return "cannot be read";
    }
    buffer[strcspn(buffer, "\r\n")] = '\0';
    if (buffer[0] == '\0') {
        wrong = "has no password in its first line";
    } else if ((*ret_password = strdup(buffer)) == NULL) {
        wrong = "does not fit into memory";
    }
    explicit_bzero(buffer, sizeof(buffer));
    return wrong;
}

const char *cli_password_read(const char *path, char **ret_password)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *wrong;

    if (fd < 0) {
        return "cannot be opened";
    }
    wrong = read_password(fd, ret_password);
    (void)close(fd);
    return wrong;
}

bool cli_password_is_in_file(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

void cli_secret_free(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}
